-- SPDX-License-Identifier: Apache-2.0
-- A store of version 1 (before there were migrations), dumped from the SQLite file that it wrote.
BEGIN TRANSACTION;
CREATE TABLE configs (
	id INTEGER NOT NULL, 
	study_id INTEGER NOT NULL, 
	config_hash VARCHAR(8) NOT NULL, 
	hw TEXT NOT NULL, 
	area TEXT NOT NULL, 
	bounds TEXT NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (study_id, config_hash), 
	FOREIGN KEY(study_id) REFERENCES studies (id)
);
INSERT INTO "configs" VALUES(1,1,'0badcafe','{"name": "base"}','{"dsp": 1}','{"S": 7}','measured','');
CREATE TABLE schema_version (
	version INTEGER NOT NULL
);
INSERT INTO "schema_version" VALUES(1);
CREATE TABLE studies (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	settings TEXT NOT NULL, 
	versions TEXT NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "studies" VALUES(1,'first','{"budget": 10, "seed": 0, "tasks": [{"channels_in": 32, "channels_out": 32, "count": 2, "dilation_h": 1, "dilation_w": 1, "height": 6, "kernel_h": 3, "kernel_w": 3, "kind": "conv2d", "n": 1, "name": "S", "pad_bottom": 1, "pad_left": 1, "pad_right": 1, "pad_top": 1, "relu": true, "residual": false, "stride_h": 1, "stride_w": 1, "width": 6}]}','{"tilewright": "0.1.0"}','complete','2026-11-21T16:41:14.546+00:00');
INSERT INTO "studies" VALUES(2,'second','{"budget": 10, "seed": 1, "tasks": [{"channels_in": 32, "channels_out": 32, "count": 2, "dilation_h": 1, "dilation_w": 1, "height": 6, "kernel_h": 3, "kernel_w": 3, "kind": "conv2d", "n": 1, "name": "S", "pad_bottom": 1, "pad_left": 1, "pad_right": 1, "pad_top": 1, "relu": true, "residual": false, "stride_h": 1, "stride_w": 1, "width": 6}]}','{}','running','2026-11-21T16:41:14.718+00:00');
CREATE TABLE trials (
	id INTEGER NOT NULL, 
	study_id INTEGER NOT NULL, 
	sequence INTEGER NOT NULL, 
	task VARCHAR(200) NOT NULL, 
	origin VARCHAR(20) NOT NULL, 
	config_hash VARCHAR(8) NOT NULL, 
	hw TEXT NOT NULL, 
	workload_key VARCHAR(32) NOT NULL, 
	workload TEXT NOT NULL, 
	schedule TEXT NOT NULL, 
	memory TEXT NOT NULL, 
	fidelity VARCHAR(20) NOT NULL, 
	oracle VARCHAR(200) NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	cycles BIGINT, 
	counters TEXT NOT NULL, 
	failure TEXT NOT NULL, 
	limit_cycles BIGINT NOT NULL, 
	host_seconds FLOAT NOT NULL, 
	output_checked BOOLEAN NOT NULL, 
	cached BOOLEAN NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (study_id, task, config_hash, schedule), 
	UNIQUE (study_id, sequence), 
	FOREIGN KEY(study_id) REFERENCES studies (id)
);
INSERT INTO "trials" VALUES(1,1,0,'S','random','8bb0d251','{"acc_bytes": 131072, "axi_burst_beats": 16, "axi_data_bits": 64, "batch": 1, "block_in": 16, "block_out": 16, "inp_bytes": 32768, "mac_lut_columns": 0, "mac_packed": 1, "mac_pipeline": 2, "name": "base", "out_bytes": 32768, "param_bytes": 16384, "read_outstanding": 8, "res_bytes": 32768, "uop_bytes": 32768, "vector_lanes": 16, "wgt_bytes": 262144, "write_outstanding": 4}','12335c20adfb4d7d','{"channels_in": 32, "channels_out": 32, "count": 2, "dilation_h": 1, "dilation_w": 1, "height": 6, "kernel_h": 3, "kernel_w": 3, "kind": "conv2d", "n": 1, "name": "S", "pad_bottom": 1, "pad_left": 1, "pad_right": 1, "pad_top": 1, "relu": true, "residual": false, "stride_h": 1, "stride_w": 1, "width": 6}','{"fusion": "tile", "h_threading": 1, "loop_order": "output", "oc_threading": 1, "tile_b": 1, "tile_ci": 1, "tile_co": 1, "tile_h": 1, "tile_w": 1}','{"max_reads": 16, "max_writes": 16, "read_bytes_per_cycle": 8, "read_latency": 10, "shared_bytes_per_cycle": 0.0, "stall_percent": 0, "stall_seed": 1, "write_bytes_per_cycle": 8, "write_latency": 10}','test','oracle-1','ok',500,'{"bytes_read": 0, "bytes_written": 0, "cycles": 500, "gemm_busy": 250, "gemm_idle": 50, "gemm_instructions": 0, "gemm_memory": 50, "gemm_token_load": 50, "gemm_token_store": 50, "gemm_token_vector": 50, "load_busy": 250, "load_idle": 50, "load_instructions": 0, "load_memory": 50, "load_token_gemm": 50, "load_token_store": 50, "load_token_vector": 50, "macs_tiles": 250, "read_bursts": 0, "store_busy": 250, "store_idle": 50, "store_instructions": 0, "store_memory": 50, "store_token_gemm": 50, "store_token_load": 50, "store_token_vector": 50, "vector_busy": 250, "vector_idle": 50, "vector_instructions": 0, "vector_memory": 50, "vector_tiles": 0, "vector_token_gemm": 50, "vector_token_load": 50, "vector_token_store": 50, "write_bursts": 0}','',1000,0.25,1,0,'2026-11-21T16:41:14.626+00:00');
INSERT INTO "trials" VALUES(2,1,1,'S','random','8bb0d251','{"acc_bytes": 131072, "axi_burst_beats": 16, "axi_data_bits": 64, "batch": 1, "block_in": 16, "block_out": 16, "inp_bytes": 32768, "mac_lut_columns": 0, "mac_packed": 1, "mac_pipeline": 2, "name": "base", "out_bytes": 32768, "param_bytes": 16384, "read_outstanding": 8, "res_bytes": 32768, "uop_bytes": 32768, "vector_lanes": 16, "wgt_bytes": 262144, "write_outstanding": 4}','12335c20adfb4d7d','{"channels_in": 32, "channels_out": 32, "count": 2, "dilation_h": 1, "dilation_w": 1, "height": 6, "kernel_h": 3, "kernel_w": 3, "kind": "conv2d", "n": 1, "name": "S", "pad_bottom": 1, "pad_left": 1, "pad_right": 1, "pad_top": 1, "relu": true, "residual": false, "stride_h": 1, "stride_w": 1, "width": 6}','{"fusion": "tile", "h_threading": 1, "loop_order": "output", "oc_threading": 1, "tile_b": 1, "tile_ci": 1, "tile_co": 1, "tile_h": 2, "tile_w": 1}','{"max_reads": 16, "max_writes": 16, "read_bytes_per_cycle": 8, "read_latency": 10, "shared_bytes_per_cycle": 0.0, "stall_percent": 0, "stall_seed": 1, "write_bytes_per_cycle": 8, "write_latency": 10}','test','oracle-1','timeout',NULL,'{}','more than 1000 cycles; it''s late',1000,0.0,0,0,'2026-11-21T16:41:14.673+00:00');
INSERT INTO "trials" VALUES(3,2,0,'S','random','8bb0d251','{"acc_bytes": 131072, "axi_burst_beats": 16, "axi_data_bits": 64, "batch": 1, "block_in": 16, "block_out": 16, "inp_bytes": 32768, "mac_lut_columns": 0, "mac_packed": 1, "mac_pipeline": 2, "name": "base", "out_bytes": 32768, "param_bytes": 16384, "read_outstanding": 8, "res_bytes": 32768, "uop_bytes": 32768, "vector_lanes": 16, "wgt_bytes": 262144, "write_outstanding": 4}','12335c20adfb4d7d','{"channels_in": 32, "channels_out": 32, "count": 2, "dilation_h": 1, "dilation_w": 1, "height": 6, "kernel_h": 3, "kernel_w": 3, "kind": "conv2d", "n": 1, "name": "S", "pad_bottom": 1, "pad_left": 1, "pad_right": 1, "pad_top": 1, "relu": true, "residual": false, "stride_h": 1, "stride_w": 1, "width": 6}','{"fusion": "tile", "h_threading": 1, "loop_order": "output", "oc_threading": 1, "tile_b": 1, "tile_ci": 1, "tile_co": 1, "tile_h": 3, "tile_w": 1}','{"max_reads": 16, "max_writes": 16, "read_bytes_per_cycle": 8, "read_latency": 10, "shared_bytes_per_cycle": 0.0, "stall_percent": 0, "stall_seed": 1, "write_bytes_per_cycle": 8, "write_latency": 10}','test','oracle-1','ok',700,'{"bytes_read": 0, "bytes_written": 0, "cycles": 700, "gemm_busy": 350, "gemm_idle": 70, "gemm_instructions": 0, "gemm_memory": 70, "gemm_token_load": 70, "gemm_token_store": 70, "gemm_token_vector": 70, "load_busy": 350, "load_idle": 70, "load_instructions": 0, "load_memory": 70, "load_token_gemm": 70, "load_token_store": 70, "load_token_vector": 70, "macs_tiles": 350, "read_bursts": 0, "store_busy": 350, "store_idle": 70, "store_instructions": 0, "store_memory": 70, "store_token_gemm": 70, "store_token_load": 70, "store_token_vector": 70, "vector_busy": 350, "vector_idle": 70, "vector_instructions": 0, "vector_memory": 70, "vector_tiles": 0, "vector_token_gemm": 70, "vector_token_load": 70, "vector_token_store": 70, "write_bursts": 0}','',1000,0.25,1,0,'2026-11-21T16:41:14.746+00:00');
CREATE INDEX ix_configs_study_id ON configs (study_id);
CREATE INDEX trial_identity ON trials (config_hash, workload_key, schedule);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
