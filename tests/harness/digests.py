# SPDX-License-Identifier: Apache-2.0
"""Checksums that Python's standard library does not have."""
CRC32C_POLYNOMIAL = 0x82f63b78  # reflected (RFC 3720, appendix B.4)


def crc32c_of_byte(value):
    for _ in range(8):
        value = value >> 1 ^ (CRC32C_POLYNOMIAL if value & 1 else 0)
    return value


CRC32C_TABLE = [crc32c_of_byte(value) for value in range(256)]


def crc32c(content):
    table, crc = CRC32C_TABLE, 0xffffffff
    for byte in content:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff
