"""All tables at once: importing this module makes `Base.metadata` complete."""

from dashboard.access import models as access
from dashboard.dispatch import attachment_models, bulk_models, models, report_models
from dashboard.workers import models as workers

__all__ = ["access", "attachment_models", "bulk_models", "models", "report_models", "workers"]
