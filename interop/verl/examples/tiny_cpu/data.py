"""Sixteen tasks. Usage: data.py FOLDER"""

import sys

import pandas

rows = [{"data_source": "tiny", "prompt": [{"role": "system", "content": "You read."}, {"role": "user", "content": f"Task {i}."}], "ability": "tiny",
         "reward_model": {"style": "rule", "ground_truth": str(i)}, "extra_info": {"index": i}, "agent_name": "infinirl_tool_agent"} for i in range(16)]
pandas.DataFrame(rows).to_parquet(f"{sys.argv[1]}/train.parquet")
pandas.DataFrame(rows[:4]).to_parquet(f"{sys.argv[1]}/val.parquet")
