# SPDX-License-Identifier: Apache-2.0
# SHA-256 of a file in Tcl alone (FIPS 180-4): no program for it is on every system that Vivado runs on.

namespace eval sha256 {
    # The first 32 bits of the fractions of square and cube roots of the first primes.
    variable start {
        0x6a09e667 0xbb67ae85 0x3c6ef372 0xa54ff53a 0x510e527f 0x9b05688c 0x1f83d9ab 0x5be0cd19
    }
    variable constants {
        0x428a2f98 0x71374491 0xb5c0fbcf 0xe9b5dba5 0x3956c25b 0x59f111f1 0x923f82a4 0xab1c5ed5
        0xd807aa98 0x12835b01 0x243185be 0x550c7dc3 0x72be5d74 0x80deb1fe 0x9bdc06a7 0xc19bf174
        0xe49b69c1 0xefbe4786 0x0fc19dc6 0x240ca1cc 0x2de92c6f 0x4a7484aa 0x5cb0a9dc 0x76f988da
        0x983e5152 0xa831c66d 0xb00327c8 0xbf597fc7 0xc6e00bf3 0xd5a79147 0x06ca6351 0x14292967
        0x27b70a85 0x2e1b2138 0x4d2c6dfc 0x53380d13 0x650a7354 0x766a0abb 0x81c2c92e 0x92722c85
        0xa2bfe8a1 0xa81a664b 0xc24b8b70 0xc76c51a3 0xd192e819 0xd6990624 0xf40e3585 0x106aa070
        0x19a4c116 0x1e376c08 0x2748774c 0x34b0bcb5 0x391c0cb3 0x4ed8aa4a 0x5b9cca4f 0x682e6ff3
        0x748f82ee 0x78a5636f 0x84c87814 0x8cc70208 0x90befffa 0xa4506ceb 0xbef9a3f7 0xc67178f2
    }

    # A word beside a copy of itself: a shift to the right turns it.
    proc block {state words} {
        variable constants
        lassign $state a b c d e f g h
        for {set i 16} {$i < 64} {incr i} {
            set x [lindex $words [expr {$i - 15}]]
            set y [lindex $words [expr {$i - 2}]]
            set xx [expr {$x << 32 | $x}]
            set yy [expr {$y << 32 | $y}]
            lappend words [expr {([lindex $words [expr {$i - 16}]] + [lindex $words [expr {$i - 7}]]
                + (($xx >> 7 ^ $xx >> 18 ^ $x >> 3) & 0xffffffff)
                + (($yy >> 17 ^ $yy >> 19 ^ $y >> 10) & 0xffffffff)) & 0xffffffff}]
        }
        foreach k $constants word $words {
            set ee [expr {$e << 32 | $e}]
            set aa [expr {$a << 32 | $a}]
            set one [expr {$h + (($ee >> 6 ^ $ee >> 11 ^ $ee >> 25) & 0xffffffff)
                + ($g ^ $e & ($f ^ $g)) + $k + $word}]
            set two [expr {(($aa >> 2 ^ $aa >> 13 ^ $aa >> 22) & 0xffffffff)
                + ($a & $b | $c & ($a | $b))}]
            set h $g
            set g $f
            set f $e
            set e [expr {($d + $one) & 0xffffffff}]
            set d $c
            set c $b
            set b $a
            set a [expr {($one + $two) & 0xffffffff}]
        }
        set next {}
        foreach old $state new [list $a $b $c $d $e $f $g $h] {
            lappend next [expr {($old + $new) & 0xffffffff}]
        }
        return $next
    }

    proc digest {path} {
        variable start
        set channel [open $path rb]
        set data [read $channel]
        close $channel
        set size [string length $data]
        append data [binary format cx[expr {(55 - $size) % 64}]W 0x80 [expr {8 * $size}]]
        set state $start
        for {set at 0} {$at < [string length $data]} {incr at 64} {
            binary scan $data @${at}Iu16 words
            set state [block $state $words]
        }
        return [format [string repeat %08x 8] {*}$state]
    }
}
