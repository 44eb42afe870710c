# calibkit, ready to run: docker build -t calibkit . && docker run --rm -v "$PWD:/data" calibkit show boundary.json
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN python -m pip install --no-cache-dir build && python -m build --wheel --outdir /dist .

FROM python:3.12-slim
COPY --from=build /dist /dist
# Kernels are compiled once, here, into a folder that every user of the image can use.
ENV NUMBA_CACHE_DIR=/opt/calibkit/kernels
RUN python -m pip install --no-cache-dir /dist/*.whl && rm -r /dist \
    && calibkit warmup \
    && chmod -R a+rwX /opt/calibkit \
    && useradd --create-home user
USER user
WORKDIR /data
ENTRYPOINT ["calibkit"]
CMD ["--help"]
