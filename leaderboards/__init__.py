"""Leaderboard entries, their standard and their page."""
