# ns SCRIPT SECONDS CLASSES: answers the packets delivered and the microseconds that took.
# Sources stand on the link's own node. `random_` makes each interval up to half longer or shorter.
set seconds [lindex $argv 0]
set classes [lindex $argv 1]
set shares [expr {$classes == 3 ? {0.5 0.3 0.2} : [lrepeat $classes [expr {1.0 / $classes}]]}]

set sim [new Simulator]
set near [$sim node]
set far [$sim node]
$sim simplex-link $near $far 100Mb 5ms CBQ/WRR
$sim simplex-link $far $near 100Mb 5ms DropTail
set line [$sim link $near $far]
set root [new CBQClass]
$root setparams none 0 0.98 auto 8 2 0
$line insert $root

set flow 0
foreach share $shares {
    incr flow
    set queue [new Queue/DropTail]
    $queue set limit_ 50
    set class [new CBQClass]
    $class install-queue $queue
    $class setparams $root true [expr {0.98 * $share}] auto 1 1 0
    $line insert $class
    $line bind $class $flow

    set sender [new Agent/UDP]
    $sender set packetSize_ 500
    $sender set fid_ $flow
    set sinks($flow) [new Agent/LossMonitor]
    $sim attach-agent $near $sender
    $sim attach-agent $far $sinks($flow)
    $sim connect $sender $sinks($flow)

    set source [new Application/Traffic/CBR]
    $source set packetSize_ 500
    $source set rate_ [expr {130.0 * $share}]Mb
    $source set random_ 1
    $source attach-agent $sender
    $sim at 0.0 "$source start"
}

proc finish {} {
    global begin sinks
    set micros [expr {[clock microseconds] - $begin}]
    set delivered 0
    foreach flow [array names sinks] {
        incr delivered [$sinks($flow) set npkts_]
    }
    puts "$delivered $micros"
    exit 0
}

$sim at $seconds finish
set begin [clock microseconds]
$sim run
