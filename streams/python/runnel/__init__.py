"""Feed, watch and control runneld, a daemon that learns online from a live stream.

    import runnel
    with runnel.Client("tcp://127.0.0.1:5570") as client:
        for x in stream:
            client.learn(x)

Client and AsyncClient send examples, Watcher receives statistics, Control sends commands.
read_recording reads files of runnel-record, run starts a daemon for a notebook, and runnel.river
has models for River. The manual is docs/reference/python.md."""
from .aio import AsyncClient
from .client import Client, Pending
from .control import Control, Tensors, read_safetensors
from .daemon import Daemon, run
from .distribution import Distribution
from .errors import CommandError, Malformed, Refused, RunnelError, Unavailable
from .feeding import Prediction
from .recording import read_recording
from .watcher import Joined, Message, Watcher
from .wire import Number

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "CommandError", "Control", "Daemon", "Distribution", "Joined", "Malformed", "Message",
           "Number", "Pending", "Prediction", "Refused", "RunnelError", "Tensors", "Unavailable", "Watcher",
           "read_recording", "read_safetensors", "run"]
