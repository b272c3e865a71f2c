"""What an operator can set: its form, where it is read from, and what it does not do."""

from worker.settings.durations import parse_duration
from worker.settings.loading import Loaded, SettingsError, flag_of, load, load_all
from worker.settings.model import Settings

__all__ = ["Loaded", "Settings", "SettingsError", "flag_of", "load", "load_all", "parse_duration"]
