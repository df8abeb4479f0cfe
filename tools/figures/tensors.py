"""Parameters in runneld's format: safetensors files of float32."""
import json
import struct

import numpy


def loads(data):
    """{name: array} of the bytes of a file."""
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[8 + size:], "<f4", (end - begin) // 4, begin)
            .reshape(entry["shape"]).copy()
            for name, entry in header.items() for begin, end in [entry["data_offsets"]]}


def dumps(tensors):
    """The bytes of a file."""
    header, blobs, offset = {}, [], 0
    for name, array in tensors.items():
        blob = numpy.ascontiguousarray(array, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(blobs)
