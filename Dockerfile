# A model server from the wheel: python -m build --wheel && docker build -t mercer .
# docker run -p 8080:8080 -v $PWD:/models mercer /models/houses.mercer
FROM python:3.12-slim
RUN useradd --create-home --uid 10001 mercer
COPY dist/mercer-*.whl /tmp/
RUN pip install --no-cache-dir "$(ls /tmp/mercer-*.whl)[serve]" && rm /tmp/mercer-*.whl
USER mercer
EXPOSE 8080
ENTRYPOINT ["mercer", "serve", "--host", "0.0.0.0", "--port", "8080"]
CMD ["/models/model.mercer"]
HEALTHCHECK CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/health', timeout=5)"
