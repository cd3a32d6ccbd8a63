"""Streams of batches: shares over time, and alarms that hold over the whole stream. `pp.Monitor(model).update(batch)`."""

from proportio.monitor.stream import Monitor, MonitorStep

__all__ = ["Monitor", "MonitorStep"]
