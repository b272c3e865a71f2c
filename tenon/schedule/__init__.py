"""What NodeSchedules ask for at each instant."""
