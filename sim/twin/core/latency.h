// SPDX-License-Identifier: Apache-2.0
// The latencies and depths of rtl/ that decide when something happens, in cycles.
//
// tests/contract/test_twin.py and test_system_twin.py hold each of them against the RTL.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_LATENCY_H_
#define TILEWRIGHT_SIM_TWIN_CORE_LATENCY_H_

#include <cstdint>

namespace tilewright::twin::latency {

// tw_core
constexpr uint32_t kQueueDepth = 16;    // gen_queue: instructions in front of a unit
constexpr uint32_t kMaxTokens = 65535;  // tw_tokens

// tw_fetch
constexpr uint32_t kFetchFifoBytes = 1024;
constexpr uint32_t kFetchChunkBytes = 128;
constexpr uint32_t kIdleToFinish = 1;  // all idle to FINISH retiring

// tw_load, tw_store
constexpr uint32_t kInFlight = 8;     // u_flight: instructions between issue and their data
constexpr uint32_t kTakeToRun = 2;    // take to the first cycle in state Run
constexpr uint32_t kTakeToOffer = 3;  // take to the first burst that is offered
constexpr uint32_t kNextBurst = 1;    // a burst taken to the next offered
constexpr uint32_t kTakeToRow = 5;    // take to the first burst of the second row, at the earliest
constexpr uint32_t kBurstsDone = 1;   // the last burst taken to tw_bursts idle
constexpr uint32_t kLockToTake = 1;   // ACC banks locked to the take, at the earliest
constexpr uint32_t kIssueToIdle = 1;  // bursts and padding idle to the issue stage idle

// tw_hold
constexpr uint32_t kHoldBeats = 16;  // at least, or the longest burst

// tw_read, tw_store: a burst taken to its address on the bus
constexpr uint32_t kAddress = 1;
// tw_read, tw_store: a beat or a response on the bus to what it does
constexpr uint32_t kAnswer = 1;

// tw_store
constexpr uint32_t kAnnounceToRead = 1;  // a burst announced to the read of its first beat
constexpr uint32_t kReadToFifo = 1;      // the read of a beat to its entry into the FIFO
constexpr uint32_t kReadToBeat = 2;      // the read of a beat to WVALID
constexpr uint32_t kBeatFifo = 4;        // u_beats

// tw_gemm, tw_vector
constexpr uint32_t kGemmTail = 4;    // the last product's issue to its retirement, less MacPipeline
constexpr uint32_t kVectorTail = 9;  // the last part's issue to its retirement
constexpr uint32_t kAluTail = 3;     // the last part's issue to its last write of ACC
constexpr uint32_t kLongTail = 5;    // the same of a product or a shift
constexpr uint32_t kPutTail = 10;    // the last part's issue to the last write of a reduced row
constexpr uint32_t kLatePut = 2;     // how much later that is for those
constexpr uint32_t kDrainTail = 2;   // the last part's issue to the last cycle that holds up PARAM
constexpr uint32_t kParamSetup = 2;  // drained to the first part, without the rows of PARAM

// tw_arbiter
constexpr uint32_t kPortInFlight = 32;  // bursts of a direction, at most

// tw_queue, and the control of a core behind it
constexpr uint32_t kBeginToStart = 1;     // idle with a descriptor to the start of a program
constexpr uint32_t kStartToRun = 2;       // the start to the first cycle of the run
constexpr uint32_t kScrubToStart = 1;     // the scrub seen ended to the start of the program
constexpr uint32_t kRetireToEnded = 1;    // FINISH retires to the core seen idle
constexpr uint32_t kEndedToIdle = 2;      // the core seen idle to the queue idle, with a completion
constexpr uint32_t kCompletionToIrq = 2;  // a completion to the interrupt of the system

constexpr uint32_t kPageBytes = 4096;
constexpr uint32_t kParamBytesPerChannel = 16;
constexpr uint32_t kParamRowBytes = 32;  // at least: tw_vector reads rows of a beat or of this

}  // namespace tilewright::twin::latency

#endif  // TILEWRIGHT_SIM_TWIN_CORE_LATENCY_H_
