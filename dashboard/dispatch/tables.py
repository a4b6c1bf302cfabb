"""All tables at once: importing this module makes `Base.metadata` complete."""

from dashboard.access import models as access
from dashboard.dispatch import bulk_models, models
from dashboard.dispatch.files import models as attachment_models
from dashboard.dispatch.reports import models as report_models
from dashboard.workers import models as workers

__all__ = ["access", "attachment_models", "bulk_models", "models", "report_models", "workers"]
