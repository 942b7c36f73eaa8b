"""Lets `prefect deployment run reward-pipeline` do without the flow's name before the deployment's.

Prefect loads this module through the entry point group `prefect.plugins` whenever it is imported
where `plugins.enabled` is set; pyproject.toml of the checkout does both. A bare name is taken for
the one deployment that bears it. Where none does, it is not found, as a full name is not; where
several do, Prefect's own error stays, which asks for the full one.
"""

from typing import TYPE_CHECKING

from prefect.plugins import HookContext, register_hook

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.responses import DeploymentResponse

PREFECT_PLUGIN_API_REQUIRES = ">=0.1,<1"


@register_hook
def setup_environment(*, ctx: HookContext) -> None:  # noqa: ARG001
    """Prefect's hook: called once per process, before any command runs."""
    from prefect.client.orchestration import PrefectClient
    from prefect.exceptions import ObjectNotFound

    by_full_name = PrefectClient.read_deployment_by_name

    async def read_deployment_by_name(self: "PrefectClient", name: str) -> "DeploymentResponse":
        if "/" in name:
            return await by_full_name(self, name)
        match await bearers(self, name):
            case []:
                sentence = f"no deployment has the name {name!r}"
                raise ObjectNotFound(LookupError(sentence), sentence)
            case [found]:
                return found
            case _:
                return await by_full_name(self, name)

    PrefectClient.read_deployment_by_name = read_deployment_by_name


async def bearers(client: "PrefectClient", name: str) -> "list[DeploymentResponse]":
    """The deployments of this bare name, of whichever flows."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    wanted = DeploymentFilter(name=DeploymentFilterName(any_=[name]))
    return await client.read_deployments(deployment_filter=wanted)
