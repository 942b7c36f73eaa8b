"""The lease by which machines that share a registry move its aliases one after the other."""

import threading

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST

from tasks.errors import RegistrationError
from tasks.registration.aliases import lock

NAME = "reward-model"


def test_the_lease_in_the_registry_has_one_holder_and_outlives_no_dead_one(place, monkeypatch):
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.02)
    client, held, inside = place.client, [], threading.Event()

    def take():
        with lock.leased(client, NAME) as still_ours:
            still_ours()
            held.append("second")

    with lock.leased(client, NAME) as still_ours:
        waiter = threading.Thread(target=take)
        waiter.start()
        inside.wait(0.3)
        assert held == []
        still_ours()
        held.append("first")
    waiter.join()
    assert held == ["first", "second"]
    assert client.search_registered_models(f"name = '{NAME}.lock'") == []

    # A holder that was killed renews nothing; one that wakes up later finds its lease gone.
    monkeypatch.setattr(lock, "RENEW_SECONDS", 3600)
    monkeypatch.setattr(lock, "LEASE_SECONDS", 0.2)
    with lock.leased(client, NAME) as asleep:
        take()
        with pytest.raises(RegistrationError, match="was lost"):
            asleep()


def test_a_lease_that_is_given_back_while_it_is_asked_for_is_asked_for_again():
    class Client:
        asked = 0

        def create_registered_model(self, name, **_):
            self.asked += 1
            if self.asked == 1:  # its row was there; when it is looked for, it is not
                self.get_registered_model(name)

        def get_registered_model(self, name):
            raise MlflowException(f"{name} not found", RESOURCE_DOES_NOT_EXIST)

    client = Client()
    lock._acquire(client, "m.lock", "me:1")
    assert client.asked == 2
