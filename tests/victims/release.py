# SPDX-License-Identifier: Apache-2.0
import __main__
print("rounds kept:", len(__main__.history))
__main__.history.clear()
