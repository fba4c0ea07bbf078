// What a system of several cores adds, in dependency order, after tilewright.f and before the
// generated tilewright_system.sv. Paths are relative to rtl/.
generated/tw_system_pkg.sv
system/tw_grant.sv
system/tw_arbiter.sv
system/tw_queue.sv
system/tw_scrub.sv
system/tw_core_slot.sv
system/tw_pages.sv
system/tw_shared_page.sv
