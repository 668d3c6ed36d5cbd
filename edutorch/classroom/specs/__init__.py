"""The exercises of the course, a module for each notebook."""
