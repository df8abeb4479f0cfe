"""Reads TensorBoard's event files by their documentation."""
import collections
import pathlib
import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def fields(data):
    """A message of protocol buffers as {field: [value, ...]}."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            assert kind == 2, f"field of type {kind}"
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        found[key >> 3].append(value)
    assert at == len(data)
    return found


def doubles(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def events(directory):
    """{tag: [(step, wall time, value)]} of a run. The value of a histogram is (limits, counts,
    fields), and that of a tag of the plugin hparams is its content as fields."""
    found = collections.defaultdict(list)
    for path in sorted(path for path in pathlib.Path(directory).iterdir() if path.is_file()):
        assert "tfevents" in path.name, path
        data, at, number = path.read_bytes(), 0, 0
        while at < len(data):
            length, of_length = struct.unpack_from("<QI", data, at)
            assert masked(data[at:at + 8]) == of_length, "invalid CRC of a length"
            body = data[at + 12:at + 12 + length]
            assert struct.unpack_from("<I", data, at + 12 + length) == (masked(body),), "CRC"
            at += 16 + length
            event = fields(body)
            if number == 0:
                assert event[3] == [b"brain.Event:2"]
            for summary in event[5]:
                for value in map(fields, fields(summary)[1]):
                    content = value[2][0] if value[2] else fields(value[5][0]) if value[5] else None
                    if value[9]:
                        plugin = fields(fields(value[9][0])[1][0])
                        assert plugin[1] == [b"hparams"] and value[8], "TensorBoard skips values without a tensor"
                        content = fields(plugin[2][0])
                    if value[5]:
                        content = (doubles(content[6][0]), doubles(content[7][0]), content)
                    found[value[1][0].decode()].append((event[2][0], event[1][0], content))
            number += 1
    return found


def session(content):
    """Settings and group from _hparams_/session_start_info."""
    start = fields(content[3][0])
    settings = {}
    for entry in map(fields, start[1]):
        value = fields(entry[2][0])
        settings[entry[1][0].decode()] = (value[2][0] if value[2] else
                                          bool(value[4][0]) if value[4] else value[3][0].decode())
    return settings, start[4][0].decode() if start[4] else None
