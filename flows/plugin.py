"""Lets `prefect deployment run reward-pipeline` do without the flow's name before the deployment's.

Prefect loads this module through the entry point group `prefect.plugins` whenever it is imported
where `plugins.enabled` is set; pyproject.toml of the checkout does both. A bare name is taken for
the one deployment that bears it; where none or several do, Prefect's own error stays.
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

    by_full_name = PrefectClient.read_deployment_by_name

    async def read_deployment_by_name(self: "PrefectClient", name: str) -> "DeploymentResponse":
        return await only_bearer(self, name) or await by_full_name(self, name)

    PrefectClient.read_deployment_by_name = read_deployment_by_name


async def only_bearer(client: "PrefectClient", name: str) -> "DeploymentResponse | None":
    """The one deployment of this bare name, of whichever flow; None for a name with a slash."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    if "/" in name:
        return None
    wanted = DeploymentFilter(name=DeploymentFilterName(any_=[name]))
    found = await client.read_deployments(deployment_filter=wanted)
    return found[0] if len(found) == 1 else None
