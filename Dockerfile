# derender on a CPU. The steps are those of README.md.
#   docker build -t derender .
#   docker run --rm -v "$PWD:/data" derender parse paper.pdf -o out
FROM python:3.11-slim-bookworm

# OpenCV's system libraries
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgl1 libglib2.0-0 \
    && rm -rf /var/lib/apt/lists/*

COPY pyproject.toml README.md LICENSE NOTICE /src/
COPY src /src/src
WORKDIR /src
RUN pip install --no-cache-dir . && rm -rf build && derender --version

WORKDIR /data
ENTRYPOINT ["derender"]
CMD ["--help"]
