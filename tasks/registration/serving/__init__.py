"""A registered reward model behind HTTP, for trainers that ask over the network.

    source.py         directory or models:/ URI -> local directory
    settings.py       address, limits, token, and how requests are read
    protocols.py      request and response forms of other servers' endpoints
    own_form.py       the request form of our own endpoint
    answer_suffix.py  what the chat template writes after an answer
    text_bound.py     a lower bound of a text's number of tokens
    reading.py        rows -> token ids
    batching.py       concurrent requests -> batches of one model thread
    guards.py         Host, token, content type and body size, checked before a request is read
    body_timeouts.py  how long the server waits for a request's body
    disconnects.py    a request whose client has left is cancelled
    refusing.py       a refusal that reaches a client that is still sending
    problems.py       errors in the form that OpenAI's clients read
    meters.py         Prometheus metrics
    service.py        a request encoded, scored in a batch, and counted
    app.py            the FastAPI application
    server.py         from the command line to the end of the process

Part of registration, not a stage: it makes no artifact, and it needs the loader that travels inside
the registered model.
"""
