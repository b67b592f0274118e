//! The kernel's HTB at the port towards the server, as lines of `tc`.

use weir_testbed::RIGHT;

/// A tree of classes that is described line by line.
pub struct Htb(Vec<String>);

impl Htb {
    /// Starts with a discipline without classes; packets of no flow go to class `default`.
    pub fn new(default: u32) -> Self {
        Self(vec![format!("qdisc add dev {RIGHT} root handle 1: htb default {default:x}")])
    }

    /// Adds a class below `parent`, or below the root if that is 0; `terms` have its rate and more.
    pub fn class(mut self, parent: u32, id: u32, terms: &str) -> Self {
        let parent = if parent == 0 { String::new() } else { format!("{parent:x}") };
        let place = format!("dev {RIGHT} parent 1:{parent} classid 1:{id:x}");
        self.0.push(format!("class add {place} htb {terms}"));
        self
    }

    /// Gives a class a queue of so many packets.
    pub fn queue(mut self, id: u32, packets: u64) -> Self {
        let place = format!("dev {RIGHT} parent 1:{id:x} handle {id:x}:");
        self.0.push(format!("qdisc add {place} pfifo limit {packets}"));
        self
    }

    /// Sends the packets to a port to a class.
    pub fn flow(mut self, port: u16, id: u32) -> Self {
        let rule = format!("u32 match ip dport {port} 0xffff flowid 1:{id:x}");
        self.0.push(format!("filter add dev {RIGHT} parent 1: protocol ip prio 1 {rule}"));
        self
    }

    /// Returns the lines, each for a call of `tc`.
    pub fn lines(self) -> Vec<String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_lines_of_tc() {
        let htb = Htb::new(0xfff).class(0, 1, "rate 1mbit").class(1, 0x1a, "rate 5bit prio 1");
        let lines = htb.queue(0x1a, 20).flow(9000, 0x1a).lines();
        let wanted = [
            "qdisc add dev right root handle 1: htb default fff",
            "class add dev right parent 1: classid 1:1 htb rate 1mbit",
            "class add dev right parent 1:1 classid 1:1a htb rate 5bit prio 1",
            "qdisc add dev right parent 1:1a handle 1a: pfifo limit 20",
            "filter add dev right parent 1: protocol ip prio 1 u32 match ip dport 9000 0xffff \
             flowid 1:1a",
        ];
        assert_eq!(lines, wanted);
    }
}
