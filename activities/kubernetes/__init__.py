"""The client of the API server (`client`), how objects are changed (`changes`), and what several packages read."""
