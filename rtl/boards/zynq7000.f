// What stands around the accelerator on a Zynq-7000 that open tools build for, in dependency order,
// after tilewright.f and the generated tilewright.v. Paths are relative to this folder.
zynq7000/tw_axi3_lite.sv
zynq7000/zynq_top.sv
