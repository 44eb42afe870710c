# calibkit, ready to run: docker build -t calibkit . && docker run --rm -v "$PWD:/data" calibkit show boundary.json
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN python -m pip install --no-cache-dir build && python -m build --wheel --outdir /dist .

FROM python:3.12-slim
COPY --from=build /dist /dist
COPY release/compile_kernels.py /tmp/
# Kernels are compiled once, here, beside their sources, for any processor of this kind.
RUN python -m pip install --no-cache-dir /dist/*.whl && rm -r /dist \
    && python /tmp/compile_kernels.py && rm /tmp/compile_kernels.py \
    && useradd --create-home user
USER user
WORKDIR /data
ENTRYPOINT ["calibkit"]
CMD ["--help"]
