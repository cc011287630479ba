# Django: its queries over a table that it does not manage, transactions, what inspectdb sees, and
# the migrations of its own applications.
import datetime as dt
import io
import sys

port, password = sys.argv[1:3]
import django
from django.conf import settings

engine = {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": port, "USER": "admin",
          "PASSWORD": password, "NAME": "test"}
applications = [f"django.contrib.{name}" for name in ("contenttypes", "auth", "sessions", "admin")]
settings.configure(DATABASES={"default": engine}, INSTALLED_APPS=applications, USE_TZ=False, TIME_ZONE="UTC",
                   DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
                   PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"])
django.setup()
from django.core.management import call_command
from django.db import connection, models, transaction
from django.db.models import Avg, Count, Exists, F, OuterRef, Subquery, Window
from django.db.models.functions import ExtractHour, Rank, TruncDay


class Reading(models.Model):
    ts = models.DateTimeField(primary_key=True)
    s = models.TextField()
    v = models.FloatField(null=True)
    n = models.BigIntegerField(null=True)

    class Meta:
        managed = False
        db_table = "readings"
        app_label = "peers"


with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE readings (ts TIMESTAMP, s SYMBOL, v DOUBLE, n BIGINT) "
                   "TIMESTAMP(ts) PARTITION BY DAY")
all_of = Reading.objects
all_of.create(ts=dt.datetime(2025, 1, 1), s="a", v=1.5, n=0)
all_of.bulk_create([Reading(ts=dt.datetime(2025, 1, 1, i), s="ab"[i % 2], v=i, n=i) for i in range(1, 10)])
assert all_of.count() == 10
assert sorted(all_of.filter(s__startswith="a", ts__gte=dt.datetime(2025, 1, 1, 3)).values_list("n", flat=True)) \
    == [4, 6, 8]
assert all_of.filter(s__icontains="A", ts__date=dt.date(2025, 1, 1)).count() == 5
found = list(all_of.values("s").annotate(m=Avg("v"), c=Count("*")).order_by("s").values_list("s", "m", "c"))
assert found == [("a", 4.3, 5), ("b", 5.0, 5)], found
days = all_of.annotate(d=TruncDay("ts")).values("d").annotate(c=Count("*"))
assert [row["c"] for row in days] == [10]
assert all_of.annotate(h=ExtractHour("ts")).filter(h=9).exists()
best = all_of.filter(s=OuterRef("s")).order_by("-v").values("v")[:1]
assert sorted(all_of.filter(v=Subquery(best)).values_list("n", flat=True)) == [8, 9]
followed = all_of.annotate(e=Exists(all_of.filter(n=OuterRef("n") + 1))).filter(e=False)
assert list(followed.values_list("n", flat=True)) == [9]
ranked = all_of.annotate(r=Window(Rank(), partition_by="s", order_by="-v"))
assert sorted((row.n, row.r) for row in ranked)[8:] == [(8, 1), (9, 1)]
assert all_of.filter(n=3).update(v=F("v") + 1) == 1 and all_of.get(n=3).v == 4
reading = all_of.get(n=4)
reading.v = 9.0
reading.save()
assert all_of.get(n=4).v == 9
assert all_of.get_or_create(ts=dt.datetime(2025, 2, 1), defaults={"s": "z"})[1]
assert all_of.filter(n=9).delete()[0] == 1
assert len(list(all_of.iterator(chunk_size=3))) == 10
with transaction.atomic():
    all_of.create(ts=dt.datetime(2025, 3, 1), s="t", n=100)
    assert all_of.filter(s="t").count() == 1, "a transaction reads its own rows"
    try:
        with transaction.atomic():
            all_of.create(ts=dt.datetime(2025, 3, 2), s="t", n=101)
            raise ValueError
    except ValueError:
        pass
assert all_of.filter(s="t").count() == 1
said = io.StringIO()
call_command("inspectdb", "readings", stdout=said)
assert "v = models.FloatField(blank=True, null=True)" in said.getvalue(), said.getvalue()
# Tables of its own, whose keys the database numbers.
call_command("migrate", verbosity=0, skip_checks=True)
from django.contrib.auth.models import Group, Permission, User

ann, bob = (User.objects.create_user(name, password="x") for name in ("ann", "bob"))
assert (ann.pk, bob.pk) == (1, 2)
staff = Group.objects.create(name="staff")
ann.groups.add(staff)
staff.permissions.set(Permission.objects.all()[:3])
assert User.objects.get(groups__name="staff") == ann and staff.permissions.count() == 3
keys = list(Permission.objects.values_list("pk", flat=True))
assert len(keys) == len(set(keys)) and 10 < len(keys), keys
ann.email = "ann@example.org"
ann.save()
bob.delete()
assert list(User.objects.values_list("username", "email")) == [("ann", "ann@example.org")]
call_command("migrate", verbosity=0, skip_checks=True)


class Sensor(models.Model):
    name = models.CharField(max_length=20, unique=True)
    count = models.PositiveIntegerField(default=0)

    class Meta:
        app_label = "peers"
        indexes = [models.Index(fields=["name"], name="by_name")]


class Measure(models.Model):
    sensor = models.ForeignKey(Sensor, on_delete=models.CASCADE)
    v = models.FloatField()

    class Meta:
        app_label = "peers"
        constraints = [models.UniqueConstraint(fields=["sensor", "v"], name="one")]


with connection.schema_editor() as editor:
    editor.create_model(Sensor)
    editor.create_model(Measure)
made = Sensor.objects.bulk_create([Sensor(name=f"s{n}") for n in range(3)])
assert [sensor.pk for sensor in made] == [1, 2, 3]
Measure.objects.create(sensor=made[0], v=1.5)
assert Measure.objects.filter(sensor__name="s0").get().v == 1.5
level = models.IntegerField(default=5)
level.set_attributes_from_name("level")
longer = models.CharField(max_length=50, unique=True)
longer.set_attributes_from_name("name")
longer.model = Sensor
with connection.schema_editor() as editor:
    editor.add_field(Sensor, level)
    editor.alter_field(Sensor, Sensor._meta.get_field("name"), longer)
with connection.cursor() as cursor:
    cursor.execute("SELECT count(*) FROM peers_sensor WHERE level = 5")
    assert cursor.fetchone() == (3,)
    cursor.execute("SELECT character_maximum_length FROM information_schema.columns "
                   "WHERE table_name = 'peers_sensor' AND column_name = 'name'")
    assert cursor.fetchone() == (50,)
with connection.schema_editor() as editor:
    editor.delete_model(Measure)
print("done")
