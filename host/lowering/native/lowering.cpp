// SPDX-License-Identifier: Apache-2.0
#include "lowering.h"

#include "emit.h"
#include "plan.h"

namespace tilewright::lowering {

struct Lowerer::State {
  Plan plan;
  Emitter emitter;
  Lowered lowered;
};

Lowerer::Lowerer() : state_(std::make_unique<State>()) {}
Lowerer::~Lowerer() = default;

Rule Lowerer::Check(const Hardware& hardware, const Layer& layer, const Schedule& schedule) {
  return state_->plan.Make(hardware, layer, schedule);
}

const Lowered& Lowerer::Lower(const Hardware& hardware, const Layer& layer,
                              const Schedule& schedule, Clip clip) {
  Lowered& lowered = state_->lowered;
  lowered.rule = Check(hardware, layer, schedule);
  if (lowered.rule == Rule::kLegal) {
    state_->plan.rows.Fill();
    state_->plan.columns.Fill();
    state_->emitter.Emit(state_->plan, clip, lowered);
  }
  return lowered;
}

}  // namespace tilewright::lowering
