"""What tools/figures/scale is asked for: a fleet, as it is planned."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Plan:
    """A fleet, as it is planned. What is assumed and not measured stands here, too."""
    daemons: int = 1000
    partitions: int = 16384
    keys: int = 10**8
    rate: float = 1e7
    exponent: float = 0.8        # the k-th most frequent key sends as 1 / k^exponent
    network: str = "gru64"
    publish: float = 60.0        # seconds between two checkpoints, and publications of states
    shards: int = 64             # servers of Redis that hold the partitions
    lease: float = 10.0          # seconds
    renewal: float = 0.2         # of it, each so many seconds at least: src/cluster/fleet_link.h
    assign: str = "count"        # count | load: what is shared out evenly
    read: str = "changes"        # all | changes: what a daemon reads when the fleet has changed
    states: str = "changed"      # all | changed: which streams' states are published
    seed: int = 1
    shard_bytes: float = 1.25e9 * 0.8   # a second, each way: 10 Gbit/s, 80% of it
    daemon_bytes: float = 1.25e8        # a second, each way: a share of its machine's network
    daemon_memory: float = 4e9          # for states
