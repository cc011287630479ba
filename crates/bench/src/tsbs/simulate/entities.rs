//! Hosts and trucks: their random properties, drawn once, and the texts of their tags.

use std::io::Write;

use super::super::random::Source;
use super::super::schema::Schema;

/// All hosts or trucks.
pub(crate) enum Entities {
    Hosts { hosts: Vec<Host>, extras: Vec<Extras> },
    Trucks(Vec<Truck>),
}

/// The random properties behind the tags of a host.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    region: u8,
    datacenter: u8,
    rack: u8,
    arch: u8,
    os: u8,
    service: u8,
    service_version: u8,
    service_environment: u8,
    team: u8,
}

/// The tags of single measurements of `devops`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extras {
    pub(super) serial: [u32; 3],
    pub(super) path: u32,
    pub(super) fstype: u32,
    pub(super) interface: u32,
    pub(super) nginx: Server,
    pub(super) redis: Server,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Server {
    name: u32,
    port: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Truck {
    model: u8,
    fleet: u8,
    driver: u8,
    device_version: u8,
}

const REGIONS: [(&str, &[u8]); 9] = [
    ("us-east-1", b"abce"),
    ("us-west-1", b"ab"),
    ("us-west-2", b"abc"),
    ("eu-west-1", b"abc"),
    ("eu-central-1", b"ab"),
    ("ap-southeast-1", b"ab"),
    ("ap-southeast-2", b"ab"),
    ("ap-northeast-1", b"ac"),
    ("sa-east-1", b"abc"),
];
const SYSTEMS: [&str; 3] = ["Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"];
const ARCHITECTURES: [&str; 2] = ["x64", "x86"];
const ENVIRONMENTS: [&str; 3] = ["production", "staging", "test"];
const TEAMS: [&str; 4] = ["SF", "NYC", "LON", "CHI"];
const FILE_SYSTEMS: [&str; 3] = ["ext3", "ext4", "btrfs"];

const FLEETS: [&str; 4] = ["East", "West", "North", "South"];
const DRIVERS: [&str; 6] = ["Derek", "Rodney", "Albert", "Andy", "Seth", "Trish"];
const DEVICE_VERSIONS: [&str; 4] = ["v1.0", "v1.5", "v2.0", "v2.3"];
/// Models: name, load capacity, fuel capacity, nominal fuel consumption.
const MODELS: [[&str; 4]; 3] =
    [["F-150", "2000", "200", "15"], ["G-2000", "5000", "300", "19"], ["H-2", "1500", "150", "12"]];

impl Host {
    /// Draws a host, after its measurements.
    pub(super) fn draw(source: &mut Source) -> Host {
        let region = below(source, REGIONS.len());
        let datacenters = REGIONS[usize::from(region)].1.len();
        Host {
            region,
            datacenter: below(source, datacenters),
            rack: byte(source.int63n(100)),
            arch: below(source, ARCHITECTURES.len()),
            os: below(source, SYSTEMS.len()),
            service: byte(source.int63n(20)),
            service_version: byte(source.int63n(2)),
            service_environment: below(source, ENVIRONMENTS.len()),
            team: below(source, TEAMS.len()),
        }
    }

    fn write(&self, tag: usize, number: usize, out: &mut Vec<u8>) {
        let (region, datacenters) = REGIONS[usize::from(self.region)];
        let written = match tag {
            0 => write!(out, "host_{number}"),
            1 => write!(out, "{region}"),
            2 => {
                let letter = datacenters[usize::from(self.datacenter)];
                write!(out, "{region}{}", char::from(letter))
            }
            3 => write!(out, "{}", self.rack),
            4 => out.write_all(SYSTEMS[usize::from(self.os)].as_bytes()),
            5 => out.write_all(ARCHITECTURES[usize::from(self.arch)].as_bytes()),
            6 => out.write_all(TEAMS[usize::from(self.team)].as_bytes()),
            7 => write!(out, "{}", self.service),
            8 => write!(out, "{}", self.service_version),
            _ => out.write_all(ENVIRONMENTS[usize::from(self.service_environment)].as_bytes()),
        };
        written.expect("memory takes it");
    }
}

impl Server {
    /// Draws a server: a name of 100,000, then a port.
    pub(super) fn draw(source: &mut Source) -> Server {
        let name = source.intn(100_000);
        Server { name, port: source.int63n(20_000) + 1_024 }
    }
}

impl Extras {
    fn write(&self, measurement: &str, tag: usize, out: &mut Vec<u8>) {
        let [a, b, c] = self.serial;
        let written = match (measurement, tag) {
            ("diskio", 0) => write!(out, "{a:03}-{b:03}-{c:03}"),
            ("disk", 0) => write!(out, "/dev/sda{}", self.path),
            ("disk", 1) => out.write_all(FILE_SYSTEMS[self.fstype as usize].as_bytes()),
            ("net", 0) => write!(out, "eth{}", self.interface),
            ("nginx", 0) => write!(out, "{}", self.nginx.port),
            ("nginx", 1) => write!(out, "nginx_{}", self.nginx.name),
            ("redis", 0) => write!(out, "{}", self.redis.port),
            ("redis", 1) => write!(out, "redis_{}", self.redis.name),
            _ => unreachable!("{measurement} has no extra tag {tag}"),
        };
        written.expect("memory takes it");
    }
}

impl Truck {
    /// Draws a truck, after its readings.
    pub(super) fn draw(source: &mut Source) -> Truck {
        Truck {
            model: below(source, MODELS.len()),
            fleet: below(source, FLEETS.len()),
            driver: below(source, DRIVERS.len()),
            device_version: below(source, DEVICE_VERSIONS.len()),
        }
    }

    fn write(&self, tag: usize, number: usize, out: &mut Vec<u8>) {
        let model = MODELS[usize::from(self.model)];
        let text = match tag {
            0 => return write!(out, "truck_{number}").expect("memory takes it"),
            1 => FLEETS[usize::from(self.fleet)],
            2 => DRIVERS[usize::from(self.driver)],
            3 => model[0],
            4 => DEVICE_VERSIONS[usize::from(self.device_version)],
            _ => model[tag - 4],
        };
        out.extend_from_slice(text.as_bytes());
    }
}

impl Entities {
    pub(crate) fn count(&self) -> usize {
        match self {
            Entities::Hosts { hosts, .. } => hosts.len(),
            Entities::Trucks(trucks) => trucks.len(),
        }
    }

    /// Appends the text of a tag.
    pub(crate) fn write_tag(&self, entity: usize, tag: usize, out: &mut Vec<u8>) {
        match self {
            Entities::Hosts { hosts, .. } => hosts[entity].write(tag, entity, out),
            Entities::Trucks(trucks) => trucks[entity].write(tag, entity, out),
        }
    }

    /// Appends the text of a tag that only one measurement has.
    pub(crate) fn write_extra(
        &self,
        entity: usize,
        schema: &Schema,
        measurement: usize,
        tag: usize,
        out: &mut Vec<u8>,
    ) {
        match self {
            Entities::Hosts { extras, .. } => {
                extras[entity].write(schema.measurements[measurement].name, tag, out);
            }
            Entities::Trucks(_) => unreachable!("trucks have no extra tags"),
        }
    }
}

fn below(source: &mut Source, count: usize) -> u8 {
    byte(source.intn(u32::try_from(count).expect("a short list")))
}

fn byte(number: u32) -> u8 {
    u8::try_from(number).expect("below 256")
}
