"""The address of a server is its own from before its model is loaded until it ends."""

import socket

import pytest

from tasks.errors import RegistrationError
from tasks.registration.serving.server import bound_socket, listen
from tasks.registration.serving.settings import ServeSettings


def test_an_address_that_another_server_has_is_refused_also_while_that_one_loads_its_model():
    with bound_socket(ServeSettings(port=0)) as first:
        wanted = ServeSettings(port=first.getsockname()[1])
        says = (
            rf"^127\.0\.0\.1:{wanted.port} cannot be listened on: .*Address already in use; give "
            "another --port or --host$"
        )
        with pytest.raises(RegistrationError, match=says):
            bound_socket(wanted)
        listen(first, wanted)
        with pytest.raises(RegistrationError, match=says):
            bound_socket(wanted)
    with pytest.raises(RegistrationError, match=r"^10\.255\.255\.1:0 cannot be listened on: "):
        bound_socket(ServeSettings(host="10.255.255.1", port=0, token="x" * 16))


def test_a_server_gets_the_address_of_one_that_ended_while_its_connections_linger():
    with bound_socket(ServeSettings(port=0)) as first:
        settings = ServeSettings(port=first.getsockname()[1])
        listen(first, settings)
        with socket.create_connection(first.getsockname()) as client:
            first.accept()[0].close()  # who closes first has the connection lingering
            assert client.recv(1) == b""
    with bound_socket(settings) as second:
        listen(second, settings)


def test_answers_are_sent_at_once_not_when_the_client_has_acknowledged():
    with bound_socket(ServeSettings(port=0)) as taken:
        assert taken.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle's algorithm on
