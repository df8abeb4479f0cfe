"""The input of tools/figures/scale: a planned fleet."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Plan:
    """A planned fleet, including values that are assumed and not measured."""
    daemons: int = 1000
    partitions: int = 16384
    keys: int = 10**8
    rate: float = 1e7
    exponent: float = 0.8        # the k-th most frequent key sends in proportion to 1 / k^exponent
    network: str = "gru64"
    publish: float = 600.0       # seconds between two checkpoints, and publications of states
    shards: int = 64             # Redis servers with the partitions
    lease: float = 10.0          # seconds
    renewal: float = 0.2         # of it, and at least this many seconds: src/cluster/fleet_link.h
    seed: int = 1
    shard_bytes: float = 1.25e9 * 0.8   # per second, each way: 10 Gbit/s, 80% of it
    daemon_bytes: float = 1.25e8        # per second, each way: a share of its machine's network
    daemon_memory: float = 4e9          # for states
