"""Connections between workers by torch.distributed: collectives, messages, lost workers, measured costs."""
