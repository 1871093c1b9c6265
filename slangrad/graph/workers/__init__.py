"""Many workers: meshes of processes, shards of tensors, collectives between them.

mesh.py          the workers, and their place on named axes
specs.py         the shard of a tensor that each worker holds
rules.py         for each operator the axes that may be sharded together: its index map
propagate.py     a spec for each node of a graph
partition.py     the graph of one worker: local shapes, and collectives
moves.py         from one spec to another: collectives and slices
strategies.py    the ways to shard each part of a graph, and their costs
search.py        partition="auto": the cheapest of all these ways together
stages.py        the layers of a loss function, cut into stages
microbatches.py  parts of the rows of a worker, as an axis of the mesh
pieces.py        the graph of a step with stages in pieces, and the messages between them
order.py         the order of pieces: one forward, one backward
pipeline.py      a stage runs its pieces
stage_times.py   the time of a step with stages
collectives.py   operators that exchange data between workers; torch.distributed runs them
transfers.py     messages on their way
faults.py        workers that die, hang or run another program: an error on all others
heartbeat.py     signs of life, through torch.distributed's store
costs.py         the seconds of collectives and kernels, measured or assumed
simulate.py      the time of a step on a cluster that is not here
checkpoint.py    the state of training in a folder, copied, written and read in parts
storage.py       these parts as files, by torch.distributed.checkpoint
timeline.py      kernels and collectives of one worker in time: tables and pictures
"""
