"""Small trained models that come with edutorch, each with the script that trained it."""
