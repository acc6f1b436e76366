# SPDX-License-Identifier: Apache-2.0
"""
frameworks.py run NAME SCRIPT...   runs a test with a framework of the Python registry
frameworks.py make NAME            makes its virtual environment first

NAME is nvflare, flower, appfl, mergekit, tuspy or schemathesis. Environments are ~/.cache/flmem/NAME-VERSION, on the system's Python and its
PyTorch and NumPy. Without one the test is skipped.
"""
import os
import shutil
import subprocess
import sys

SYSTEM_PYTHON = "/usr/bin/python3"
# NVFlare and schemathesis have all their dependencies. The others have what their imports need:
# some dependencies want a newer PyTorch than Debian's, or versions that not every registry has.
PACKAGES = {
    "nvflare": ("nvflare==2.9.0",),
    "flower": ("flwr==1.42.0", "grpcio>=1.70,<2", "protobuf>=5.28,<7", "pycryptodome", "iterators<0.0.3",
               "tomli", "tomli-w", "pathspec<2", "click", "typer<0.21", "rich<15", "requests", "httpx", "httpcore", "h11",
               "anyio", "certifi", "idna", "sniffio", "typing-extensions", "markdown-it-py", "mdurl", "pygments",
               "shellingham", "charset-normalizer", "urllib3", "cryptography", "cffi", "pycparser", "pyyaml",
               "packaging",
               # Further imports of SuperLink and SuperNode; later health checks want a newer
               # protobuf.
               "grpcio-health-checking>=1.70,<1.76", "sqlalchemy>=2.0.45,<3", "greenlet", "alembic>=1.18.1,<2", "mako",
               "markupsafe", "uvicorn>=0.49,<0.50", "fastapi>=0.138,<0.139", "starlette>=1.3.1,<1.4", "pydantic",
               "pydantic-core", "annotated-types", "annotated-doc", "typing-inspection", "prompt-toolkit", "wcwidth",
               "aiosqlite"),
    "appfl": ("appfl==1.12.0", "omegaconf", "antlr4-python3-runtime==4.9.3", "PyYAML", "packaging",
              "opacus==1.3.0", "opt_einsum", "scipy==1.10.1",
              # APPFL's agents import packages that draw reports of data; its communicators import
              # each other.
              "wandb==0.21.4", "pydantic==2.10.6", "pydantic-core==2.27.2", "annotated-types", "typing-extensions",
              "click", "gitpython", "gitdb", "smmap", "platformdirs", "sentry-sdk", "psutil", "piq==0.8.0",
              "torchvision==0.15.0", "seaborn==0.13.2", "matplotlib==3.8.4", "scikit-learn==1.3.2", "pandas==2.1.4",
              "joblib", "threadpoolctl", "contourpy==1.2.1", "cycler", "fonttools", "kiwisolver", "pyparsing",
              "python-dateutil", "pytz", "tzdata", "six", "Pillow", "colorama", "grpcio>=1.70,<1.80",
              "protobuf>=5.28,<7", "proxystore", "cloudpickle", "tomli", "tomli-w", "globus-sdk", "PyJWT",
              "cryptography", "cffi", "pycparser", "boto3", "botocore", "s3transfer", "jmespath", "requests",
              "urllib3", "idna", "certifi", "charset-normalizer"),
    "mergekit": ("mergekit==0.0.6", "transformers==4.45.2", "tokenizers==0.20.3", "huggingface_hub==0.26.5",
                 "safetensors", "accelerate==0.34.2", "peft==0.11.1", "immutables==0.20", "pydantic==2.10.6",
                 "pydantic-core==2.27.2", "annotated-types", "typing-extensions", "click", "tqdm", "regex",
                 "filelock", "fsspec", "packaging", "requests", "psutil", "pyyaml", "networkx"),
    # The client of tus's authors; it always imports its asynchronous half.
    "tuspy": ("tuspy==1.1.0", "requests", "charset-normalizer", "idna", "urllib3", "certifi", "tinydb", "aiohttp",
              "multidict", "yarl", "propcache", "frozenlist", "aiosignal", "aiohappyeyeballs", "attrs", "async-timeout",
              "typing-extensions"),
    "schemathesis": ("schemathesis==4.32.5",),
}
WITH_DEPENDENCIES = ("nvflare", "schemathesis")


def home(name):
    return os.path.expanduser(f"~/.cache/flmem/{PACKAGES[name][0].replace('==', '-')}")


def make(name):
    shutil.rmtree(home(name), ignore_errors=True)
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--system-site-packages", home(name)], check=True)
    # Otherwise older packages of the system would be used instead.
    alone = [] if name in WITH_DEPENDENCIES else ["--no-deps", "--ignore-installed"]
    subprocess.run([os.path.join(home(name), "bin", "pip"), "install", "--quiet", *alone, *PACKAGES[name]],
                   check=True)


def run(name, words):
    python = os.path.join(home(name), "bin", "python")
    if not os.path.exists(python):
        print(f"SKIP: no {PACKAGES[name][0]}; make it with '{sys.argv[0]} make {name}'")
        return 77
    return subprocess.run([python, "-B", *words], check=False).returncode


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("run", "make") or sys.argv[2] not in PACKAGES:
        print(__doc__, file=sys.stderr)
        return 2
    return make(sys.argv[2]) if sys.argv[1] == "make" else run(sys.argv[2], sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
