"""A registered reward model behind HTTP, for trainers that ask over the network.

    source.py      directory or models:/ URI -> local directory
    settings.py    where to listen, and what is too much
    protocols.py   what the endpoints of others take and answer
    own_form.py    what ours takes
    closing.py     what the chat template writes behind an answer
    text_bound.py  how many tokens a text has at least
    reading.py     rows -> token ids
    batching.py    concurrent requests -> batches of one model thread
    guards.py      Host, token, body size: before anything is read
    patience.py    how long a body is waited for
    refusing.py    a refusal that reaches a client that is still sending
    app.py         the FastAPI application
    server.py      from the command line to the end of the process

Part of registration, not a stage: it makes no artifact, and it needs the loader that travels inside
the registered model.
"""
