"""Pictures that are operated: clicked, changed, played with."""
