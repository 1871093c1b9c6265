"""Many workers: meshes of processes, shards of tensors, collectives between them.

checkpoints/   the state of training in a folder, copied, written and read in parts
simulation/    the time of a step on workers that may not be here: tables and pictures
parameters.py  the parameters of a step, and the parts of them that a worker holds
bits.py        consistent="bits": the same bits for 1, 2, 4 and 8 workers
search/        partition="auto": the ways to shard each part of a graph, and the cheapest of them together
stages/        layers on several stages, micro-batches, the pieces of a step and their order
sharding/      the graph of one worker: index maps, a spec for each node, collectives where specs change
connections/   torch.distributed: collectives, messages, lost workers, measured costs
meshes/        workers on named axes, specs of tensors, operators that exchange data
"""
