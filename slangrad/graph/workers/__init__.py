"""Many workers: meshes of processes, shards of tensors, collectives between them.

mesh.py          the workers, and their place on named axes
specs.py         the shard of a tensor that each worker holds
rules.py         for each operator the axes that may be sharded together: its index map
propagate.py     a spec for each node of a graph
partition.py     the graph of one worker: local shapes, and collectives
collectives.py   operators that exchange data between workers; torch.distributed runs them
faults.py        workers that die, hang or run another program: an error on all others
heartbeat.py     signs of life, through torch.distributed's store
costs.py         the seconds of collectives and kernels, measured or assumed
simulate.py      the time of a step on a cluster that is not here
checkpoint.py    the state of training in a folder, copied, written and read in parts
storage.py       these parts as files, by torch.distributed.checkpoint
timeline.py      kernels and collectives of one worker in time: tables and pictures
"""
