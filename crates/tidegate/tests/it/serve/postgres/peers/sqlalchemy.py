import sys, datetime
from urllib.parse import quote
from sqlalchemy import (TIMESTAMP, Column, Float, MetaData, String, Table, create_engine, func,
                        inspect, select, text)

port, password = sys.argv[1:3]
try:
    import psycopg
    driver = 'psycopg'
except ImportError:
    driver = 'psycopg2'
engine = create_engine(f"postgresql+{driver}://admin:{quote(password)}@127.0.0.1:{port}/test")
with engine.begin() as db:
    db.execute(text("INSERT INTO t (ts, s, v) VALUES (:ts, :s, :v)"),
               [dict(ts=datetime.datetime(2025, 3, 1, 0, 0, n), s='a', v=n / 2) for n in range(5)])
names = inspect(engine).get_table_names()
assert names == ['t'], names
assert inspect(engine).has_table('t') and not inspect(engine).has_table('nope')
table = Table('t', MetaData(), Column('ts', TIMESTAMP), Column('s', String), Column('v', Float))
with engine.connect() as db:
    found = db.execute(select(func.count(), func.sum(table.c.v)).where(table.c.s == 'a')).one()
    assert tuple(found) == (5, 5.0), found
# What tools ask to know a table.
inspector = inspect(engine)
names = [column['name'] for column in inspector.get_columns('t')]
assert names == ['ts', 's', 'v', 'n', 'd', 'g', 'b', 'ok', 'day'], names
nullable = [column['name'] for column in inspector.get_columns('t') if not column['nullable']]
assert nullable == ['ts'], nullable
assert inspector.get_pk_constraint('t')['constrained_columns'] == []
assert inspector.get_indexes('t') == [] and inspector.get_foreign_keys('t') == []
assert inspector.get_unique_constraints('t') == [] and inspector.get_check_constraints('t') == []
assert inspector.get_table_comment('t') == {'text': None}
assert 'public' in inspector.get_schema_names() and inspector.get_view_names() == []
assert inspector.get_enums() == [] and inspector.get_sequence_names() == []
found = Table('t', MetaData(), autoload_with=engine)
assert [column.name for column in found.columns] == names
assert str(found.c.d.type) == 'NUMERIC(10, 3)' and str(found.c.n.type) == 'INTEGER'
everything = MetaData()
everything.reflect(engine)
assert list(everything.tables) == ['t']
with engine.begin() as db:
    db.execute(found.insert(), [dict(ts=datetime.datetime(2025, 3, 2, n), s='b', n=n) for n in range(3)])
    rows = db.execute(select(found.c.n).where(found.c.s.in_(['b'])).order_by(found.c.n)).all()
    assert [n for (n,) in rows] == [0, 1, 2], 'a transaction sees its own rows'
with engine.connect() as db:
    rows = db.execute(select(found.c.n).where(found.c.s.in_(['b'])).order_by(found.c.n)).all()
    assert [n for (n,) in rows] == [0, 1, 2], rows
# Tables are made in a transaction, and filled there.
made = Table('made', MetaData(), Column('k', String), Column('v', Float))
with engine.connect() as db:
    made.create(db)
    db.execute(made.insert(), [dict(k='a', v=1.5), dict(k='b', v=2.5)])
    assert db.execute(made.update().where(made.c.k == 'a').values(v=3.5)).rowcount == 1
    found = db.execute(made.insert().values(k='c', v=0.5).returning(made.c.k, made.c.v)).one()
    assert tuple(found) == ('c', 0.5), found
    assert not inspect(engine).has_table('made') and inspect(db).has_table('made')
    db.rollback()
assert not inspect(engine).has_table('made')
with engine.begin() as db:
    made.create(db)
    db.execute(made.insert(), [dict(k='a', v=1.5)])
with engine.begin() as db:
    assert db.execute(select(func.sum(made.c.v))).scalar() == 1.5
    assert db.execute(made.delete().returning(made.c.k)).scalars().all() == ['a']
made.drop(engine.execution_options(isolation_level='AUTOCOMMIT'))
# Classes, whose keys the database numbers.
from sqlalchemy import BigInteger, ForeignKey, Identity, Integer
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Site(Base):
    __tablename__ = 'site'
    id = mapped_column(Integer, primary_key=True)
    name = mapped_column(String(20), unique=True, nullable=False)
    rank = mapped_column(Integer, server_default=text('7'))
    sensors = relationship('Sensor', back_populates='site')


class Sensor(Base):
    __tablename__ = 'sensor'
    id = mapped_column(BigInteger, Identity(), primary_key=True)
    site_id = mapped_column(ForeignKey('site.id', ondelete='CASCADE'))
    site = relationship(Site, back_populates='sensors')


Base.metadata.create_all(engine)
with Session(engine) as session:
    site = Site(name='north', sensors=[Sensor(), Sensor()])
    session.add_all([site, Site(name='south')])
    session.commit()
    assert (site.id, site.rank, [it.id for it in site.sensors]) == (1, 7, [1, 2]), site.sensors
    site.name = 'up north'
    session.commit()
    joined = select(Site.name).join(Sensor).order_by(Sensor.id)
    assert session.scalars(joined).all() == ['up north'] * 2
    session.delete(session.get(Site, 2))
    session.commit()
    assert session.scalar(select(func.count()).select_from(Site)) == 1
columns = {column['name']: column for column in inspect(engine).get_columns('site')}
assert columns['rank']['default'] == '7' and columns['name']['default'] is None, columns
Base.metadata.drop_all(engine)
try:
    import pandas
except ImportError:
    pandas = None
if pandas:
    frame = pandas.DataFrame({'ts': [datetime.datetime(2025, 4, 1)], 's': ['p'], 'v': [1.5], 'n': [3]})
    for method in (None, 'multi'):
        frame.to_sql('t', engine, if_exists='append', index=False, method=method)
    read = pandas.read_sql("SELECT s, v, n FROM t WHERE s = 'p'", engine)
    assert read.values.tolist() == [['p', 1.5, 3]] * 2, read
print("done")
