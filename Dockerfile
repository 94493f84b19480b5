# A swarm server. Build: docker build -t ajet-swarm .     Run, with GPUs:
#   docker run --gpus all --shm-size=32g -p 10086:10086 -v "$PWD/swarm:/work" -e AJET_SWARM_TOKEN=secret ajet-swarm
FROM python:3.11-slim
COPY . /src
RUN pip install --no-cache-dir '/src[trainer,verl,vllm]'
WORKDIR /work
EXPOSE 10086
CMD ["ajet-swarm", "start", "--host", "0.0.0.0"]
