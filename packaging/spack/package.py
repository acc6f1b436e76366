# SPDX-License-Identifier: Apache-2.0
"""Recipe for Spack: copy it to var/spack/repos/.../packages/flmem/ and run

    spack dev-build --source-path TREE flmem@0.2.0
"""
from spack.package import *


class Flmem(CMakePackage):
    """Manages the memory of long-running federated-learning jobs from outside the process."""

    license("Apache-2.0")

    version("0.2.0")

    variant("http", default=True, description="aggregate reads models at http:// addresses")
    variant("mpi", default=False, description="aggregate in several processes (Open MPI)")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("cjson")
    depends_on("libyaml")
    depends_on("zlib-api")
    depends_on("libmicrohttpd")
    depends_on("gnutls")
    depends_on("ncurses")
    depends_on("curl", when="+http")
    depends_on("openmpi", when="+mpi")
    depends_on("python@3.8:", type=("build", "run"))
    extends("python")

    conflicts("platform=darwin", msg="flmem reads /proc of Linux")
    conflicts("platform=windows", msg="flmem reads /proc of Linux")

    def cmake_args(self):
        return [
            self.define("FLMEM_TESTS", False),
            self.define("CMAKE_INSTALL_LIBDIR", "lib"),
            self.define("FLMEM_PYTHON_DIR", self.spec["python"].package.purelib),
        ]

    def setup_run_environment(self, env):
        # These are loaded on use, by name.
        for name in ("libmicrohttpd", "gnutls", "ncurses"):
            env.append_path("LD_LIBRARY_PATH", self.spec[name].prefix.lib)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_command(self):
        Executable(self.prefix.bin.flmem)("--version")
