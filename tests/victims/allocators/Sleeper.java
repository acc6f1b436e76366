// SPDX-License-Identifier: Apache-2.0
public class Sleeper {
	public static void main(String[] args) throws Exception {
		System.out.println("ready");
		while (System.in.read() >= 0) {
		}
	}
}
