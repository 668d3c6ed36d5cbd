"""Pictures of several processes that train together. See README.md."""
