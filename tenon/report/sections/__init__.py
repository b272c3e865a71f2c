"""The sections of the page, one module for each subject."""
