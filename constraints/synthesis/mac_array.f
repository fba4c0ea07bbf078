// The MAC array alone, for place and route; paths are relative to this file.
../../rtl/core/tw_mac.sv
mac_array.sv
