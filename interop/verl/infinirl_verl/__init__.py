"""InfiniRL for verl: condensed segments, and credit that crosses the cuts.

The core needs numpy alone: rows (which rows are one trajectory), gae, turn, returns,
group (the estimators), whiten, weights, report (metrics), save, settings, and fifo with
pieces (the condenser). On verl are plugin (the entry point), credit (the estimators as
verl calls them), trainer and agent_loop.
"""

__version__ = "0.1.0"
