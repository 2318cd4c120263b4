import pytest

from quintain.testing import store_suite


class TestPostgres(store_suite.StoreSuite):
    @pytest.fixture
    def url(self, postgres_url):
        return postgres_url
