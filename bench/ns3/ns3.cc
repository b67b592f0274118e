// The scenario of `weir lab run simulator-speed` in ns-3 [ns3]: CBR sources on the node in front of a
// link of 100 Mbit/s, 500-byte IP packets at 130 % of each share, every interval up to half longer or
// shorter, receivers behind the link.
//
//   ns3 SECONDS [prio|device]
//
// ns-3 has no scheduler that divides a link by rates. `prio` is what comes nearest: a queue a class
// (PrioQueueDisc over three FifoQueueDiscs of 50 packets). `device` has no queue disc at all, only the
// device's own queue: nothing in ns-3 forwards a packet over a link with less work.
// Answers the packets delivered and the microseconds of wall clock from the first event to the last.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

namespace {

constexpr double LINK_BPS = 100e6;
constexpr double LOAD = 1.3;
constexpr unsigned PERCENTS[] = {50, 30, 20};
constexpr uint32_t IP_BYTES = 500;
constexpr uint32_t IP_UDP_HEADERS = 28;
constexpr uint16_t FIRST_PORT = 5000;

uint64_t delivered = 0;

/// Sends datagrams at even intervals, each made longer or shorter at random.
class Source
{
  public:
    Source(ns3::Ptr<ns3::Node> node, ns3::InetSocketAddress to, double interval, int precedence)
        : m_socket(ns3::Socket::CreateSocket(node, ns3::UdpSocketFactory::GetTypeId())),
          m_gap(ns3::CreateObject<ns3::UniformRandomVariable>())
    {
        m_socket->SetPriority(precedence);
        m_socket->Connect(to);
        m_gap->SetAttribute("Min", ns3::DoubleValue(interval * 0.5));
        m_gap->SetAttribute("Max", ns3::DoubleValue(interval * 1.5));
    }

    void Send()
    {
        m_socket->Send(ns3::Create<ns3::Packet>(IP_BYTES - IP_UDP_HEADERS));
        ns3::Simulator::Schedule(ns3::Seconds(m_gap->GetValue()), &Source::Send, this);
    }

  private:
    ns3::Ptr<ns3::Socket> m_socket;
    ns3::Ptr<ns3::UniformRandomVariable> m_gap;
};

void
Receive(ns3::Ptr<ns3::Socket> socket)
{
    while (socket->Recv())
    {
        delivered++;
    }
}

/// Bands 0, 1 and 2 of `prio` are what ns-3 makes of the socket priorities 6, 0 and 2.
constexpr int PRECEDENCES[] = {6, 0, 2};

void
InstallPrio(ns3::Ptr<ns3::NetDevice> device)
{
    ns3::TrafficControlHelper control;
    const auto root = control.SetRootQueueDisc("ns3::PrioQueueDisc");
    const auto classes = control.AddQueueDiscClasses(root, 3, "ns3::QueueDiscClass");
    for (const auto id : classes)
    {
        control.AddChildQueueDisc(root, id, "ns3::FifoQueueDisc", "MaxSize", ns3::StringValue("50p"));
    }
    control.Install(device);
}

} // namespace

int
main(int argc, char** argv)
{
    const double seconds = argc > 1 ? std::atof(argv[1]) : 0;
    const std::string discipline = argc > 2 ? argv[2] : "prio";
    if (seconds <= 0 || (discipline != "prio" && discipline != "device"))
    {
        std::cerr << "usage: ns3 SECONDS [prio|device]\n";
        return 2;
    }
    const bool classes = discipline == "prio";

    ns3::NodeContainer nodes;
    nodes.Create(2);
    ns3::InternetStackHelper().Install(nodes);
    ns3::PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", ns3::DataRateValue(ns3::DataRate(uint64_t(LINK_BPS))));
    link.SetChannelAttribute("Delay", ns3::StringValue("5ms"));
    // With classes the device holds little, so that packets wait where they are told apart.
    link.SetQueue("ns3::DropTailQueue", "MaxSize", ns3::StringValue(classes ? "2p" : "150p"));
    const ns3::NetDeviceContainer devices = link.Install(nodes);
    if (classes)
    {
        InstallPrio(devices.Get(0));
    }
    ns3::Ipv4AddressHelper addresses("10.1.1.0", "255.255.255.0");
    const ns3::Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    if (!classes)
    {
        ns3::TrafficControlHelper().Uninstall(devices);
    }

    for (int index = 0; index < 3; index++)
    {
        const uint16_t port = FIRST_PORT + index;
        const auto any = ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), port);
        const auto type = ns3::UdpSocketFactory::GetTypeId();
        const auto receiver = ns3::Socket::CreateSocket(nodes.Get(1), type);
        receiver->Bind(any);
        receiver->SetRecvCallback(ns3::MakeCallback(&Receive));
        const double interval = IP_BYTES * 8 / (LOAD * PERCENTS[index] / 100 * LINK_BPS);
        const ns3::InetSocketAddress to(interfaces.GetAddress(1), port);
        // Lives as long as the program: events point to it.
        auto* source = new Source(nodes.Get(0), to, interval, PRECEDENCES[index]);
        ns3::Simulator::Schedule(ns3::Seconds(0), &Source::Send, source);
    }

    ns3::Simulator::Stop(ns3::Seconds(seconds));
    const auto begin = std::chrono::steady_clock::now();
    ns3::Simulator::Run();
    const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - begin;
    std::cout << delivered << " " << uint64_t(wall.count()) << std::endl;
    // The end of the process frees what is left, sources and their sockets included.
    return 0;
}
